"""One module a bench: run(context, result) measures and adds rows and plots."""
