"""What a set says of the server itself: its flags, its plugins, and the objects that it lays over the cluster."""
