"""What a set says about the server: flags, plugins, and objects laid over the cluster."""
