"""What every package uses: canonical bytes, errors, ids and times, fault points, counters, text made safe to print."""
