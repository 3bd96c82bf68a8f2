"""hybrid beside other frameworks: same numbers in, same results out, then the time.

``table`` says what is computed, a file in ``adapters`` how a framework computes it, ``process``
and ``serve`` are the two ends of the conversation with its process, and ``runner`` compares.
Processes of other frameworks have an interpreter that may lack hybrid: ``adapters``, ``problems``,
``table`` and ``serve`` use nothing of it but each other, and NumPy.
"""
