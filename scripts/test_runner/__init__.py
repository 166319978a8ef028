"""Runs every check and test of the project and counts them. Called by scripts/test.

counts.py  how many tests a step's output reports
report.py  what is printed
run.py     one step as a child process
steps.py   the steps, in order
"""
