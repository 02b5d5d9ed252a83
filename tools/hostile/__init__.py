"""The parts of ``tools/fuzz.py``: a client that can misbehave, requests to start from, ways to spoil them,
attacks made on purpose, and the oracle that says what a server must do however bad its input is."""
