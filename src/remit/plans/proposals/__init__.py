"""Plans that agents propose: their drafts, stored previews, decisions and evidence."""
