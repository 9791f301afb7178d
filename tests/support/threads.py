"""Threads of a test that work until it has seen enough."""

import threading


class Threads:
    """Context manager: run(argument) in a thread for each argument. They end by themselves once `over` is set."""

    def __init__(self, run, arguments):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=run, args=(argument,)) for argument in arguments]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
