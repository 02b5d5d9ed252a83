"""What both sides of the API need once: HTTP, patches, field errors, texts as Go has them, certificates."""
