"""What every part of the torture run is made with."""
