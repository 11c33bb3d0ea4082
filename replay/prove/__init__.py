"""What a change of policies can ever do: proofs, and requests that show a difference."""
