"""Effects of calls and stores: announced to the capture beforehand, or refused."""
