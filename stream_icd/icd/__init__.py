"""The method icd, the paper's, piece by piece: a frozen encoder embeds, K-means clusters."""
