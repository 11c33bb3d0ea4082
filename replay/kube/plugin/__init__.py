"""What built-in mutating plugins write, as rules over plain JSON.

Two readers share them: reconstruction, which adds again what a recorded object got before policies saw it, and
`replay.admission.builtin`, which runs the plugins of a set. Nothing is looked up here. What is written into containers is
written in place, as by the server: the containers are the caller's own, and may be maps that tell when what is read is not known.
"""
