"""Experiment ``figures``: which figures of documents on Bloom filters are right?"""
