"""Server settings in a set: flags, plugins, and objects that replace those of the cluster."""
