"""What pages show is what happens: blocks are run when the pages are built, galleries and tables are made by spfgen."""
