"""What docker-compose.yml is built from: the images, what they install, and what their one-shot services do."""
