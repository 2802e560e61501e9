"""Language models behind the port `ChatModel`; nothing here is imported before a model is opened."""
