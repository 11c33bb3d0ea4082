"""How requests and objects change under the candidate, after the first request that ends differently."""
