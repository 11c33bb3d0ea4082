"""The libraries of functions that Kubernetes and cel-go add to CEL, one module each."""
