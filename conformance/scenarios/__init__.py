"""What a scheduler does to a paged cache: requests, blocks and steps simulated, and a target driven through them."""
