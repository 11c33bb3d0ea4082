"""Changes of requests and objects under the candidate, after the first request that ends differently."""
