"""What lies on the disk, made searchable: code, commits and documents."""
