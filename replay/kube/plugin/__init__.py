"""The changes by built-in mutating plugins, as rules over plain JSON.

Two readers share them. Reconstruction adds again what a recorded object got before policies saw it.
`replay.admission.builtin` runs the plugins of a set. Nothing is looked up here. Changes to containers are made in
place, as by the server. The containers belong to the caller, and may be maps that raise on a read of an unknown part.
"""
