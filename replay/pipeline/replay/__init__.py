"""The replay of the parts of a log in the processes of an executor."""
