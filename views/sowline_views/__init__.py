"""The views service: computes partial states of views from the changes of the topics that they read."""
