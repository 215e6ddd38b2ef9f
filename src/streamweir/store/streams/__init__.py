"""The frames of resumable streams that several nodes share, in Valkey or Redis."""
