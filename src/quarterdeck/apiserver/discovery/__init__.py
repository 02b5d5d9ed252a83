"""What the server says it serves: groups and resources, and their OpenAPI documents."""
