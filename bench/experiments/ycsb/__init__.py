"""YCSB's core workloads on embedded stores: ``python -m bench ycsb``.

Cooper, Silberstein, Tam, Ramakrishnan, Sears, "Benchmarking cloud serving systems with YCSB", SoCC
2010; the details are those of its CoreWorkload and its workload files a to f.
"""
