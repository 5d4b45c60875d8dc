"""Where an effect may reach: names judged as text, then opened beneath an allowed directory, following no link."""
