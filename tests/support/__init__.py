"""What tests share. The only test code that other tests may import."""
