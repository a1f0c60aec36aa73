"""What a failure leaves behind, and how it is seen again."""
