"""Where people and programs meet the engine; everything here parses, calls one verb, prints."""
