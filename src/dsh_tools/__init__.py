"""dsh-tools: the tool layer of an LLM agent."""
