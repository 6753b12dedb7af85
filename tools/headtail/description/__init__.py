"""A device's lines become a short report: counted here, worded by a language model.

facts     what the lines say, counted
wording   what the model is told and asked, and which of its numbers nobody gave it
client    the request to a server of the OpenAI API
"""
