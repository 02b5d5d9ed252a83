"""Server-side apply and metadata.managedFields."""
