"""Carries out an approved plan, verifies it, undoes it after a failure, and resumes it after a crash."""
