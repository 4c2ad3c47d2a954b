"""The page's server: files, questions and answers, news to all tabs, and who may ask."""
