"""`replay report`: from a log or a store and a period to the weekly report."""
