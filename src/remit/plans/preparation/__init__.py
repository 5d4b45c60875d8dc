"""What a plan's SQL and pipelines would produce, found out on copies before anything is changed."""
