"""The way back: what is kept, durably, before an effect may begin."""
