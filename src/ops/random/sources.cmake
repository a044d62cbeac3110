# The sources of this family.
