"""`/api`: what an operator, or the admin of a workspace, may see and do. JSON over the same store."""
