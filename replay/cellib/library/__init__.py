"""The function libraries that Kubernetes and cel-go add to CEL, one module for each."""
