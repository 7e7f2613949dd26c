"""What people look at: tables and progress."""
