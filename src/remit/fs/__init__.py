"""Where an effect may reach: paths judged as text, then opened below an allowed folder, following no link."""
