"""A right answer to each exercise, one module each, named `solution` in it.

They are what the checks compare with, and what a teacher may show afterwards. A learner's folder has none.
"""
