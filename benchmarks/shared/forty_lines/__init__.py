"""What a user would write instead of `stream-icd consume detect`, as short as is honest."""
