"""One exchange of a chat at a time: the context, the model and its tools, and everything recorded."""
