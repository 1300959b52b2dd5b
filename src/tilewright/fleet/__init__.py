"""Building and timing of candidates on many machines, over dask.distributed.

    search -> FleetMeasurer -> Dask's scheduler -> builders -> devices

A candidate travels as data (`measure.program`), is compiled by a worker with spare cores, for the
device's target, and goes from there as object code to a worker that is the device. What runs it is
a child process of that worker, so that a candidate that crashes or hangs costs itself. Dask brings
the queue, resources, retries, TLS and the dashboard; what is ours is two functions over bytes
(`work`), what a worker says of itself (`facts`), who may join (`server`), and the measurer.

Scripts hold a device for a session (`session`, `tracker`): a Dask task (`held`) that takes the
device's resource and hands the script's questions to a child process of its own (`session_child`).

Dask's own messages are pickles, so whoever holds a fleet's certificate can run code on it. What we
hand to Dask are bytes, of JSON or `measure.protocol`: no object of a user's travels.
"""
