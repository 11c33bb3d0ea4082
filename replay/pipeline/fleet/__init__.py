"""Work in the processes of other machines: orders go to them, and what is large goes through the storage of the store."""
