"""`/api`: what an operator, or the admin of a workspace, can see and do. JSON."""
