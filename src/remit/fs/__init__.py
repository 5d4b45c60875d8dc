"""Files that an effect may reach: paths are checked as text, then opened below an allowed folder, without links."""
